"""What more than one method needs, each one idea: pure functions, norm layers, dropout. Nothing here knows a method."""
