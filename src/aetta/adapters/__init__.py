"""TTA methods: each learns from unlabelled batches, on a copy of a model. One paper, one file."""

from aetta.adapters.base import Adapter
from aetta.adapters.batch_norm import BatchNorm
from aetta.adapters.cmf import Cmf
from aetta.adapters.cotta import Cotta
from aetta.adapters.deyo import DeYO
from aetta.adapters.eata import Eata, Eta
from aetta.adapters.lame import Lame
from aetta.adapters.memo import Memo
from aetta.adapters.note import Note
from aetta.adapters.rdumb import RDumb
from aetta.adapters.roid import Roid
from aetta.adapters.rotta import Rotta
from aetta.adapters.sar import Sar
from aetta.adapters.sotta import Sotta
from aetta.adapters.source import Source
from aetta.adapters.tent import Tent

__all__ = [
    "Adapter",
    "BatchNorm",
    "Cmf",
    "Cotta",
    "DeYO",
    "Eata",
    "Eta",
    "Lame",
    "Memo",
    "Note",
    "RDumb",
    "Roid",
    "Rotta",
    "Sar",
    "Sotta",
    "Source",
    "Tent",
]
