"""Real images: data sets from their official files, corruptions of any images, and streams that arrange them."""
