# Generated from the operators by `penstock stubs penstock`. Changes here are lost.

from penstock_plugins.map import *
from penstock.pipes.map.cache import InMemoryCacheHolder as InMemoryCacheHolder
from penstock.pipes.map.combine import Concater as Concater
from penstock.pipes.map.combine import Zipper as Zipper
from penstock.pipes.map.convert import IterToMapConverter as IterToMapConverter
from penstock.pipes.map.create import SequenceWrapper as SequenceWrapper
from penstock.pipes.map.filter import Filter as Filter
from penstock.pipes.map.group import Batcher as Batcher
from penstock.pipes.map.mix import Mixer as Mixer
from penstock.pipes.map.objects import ObjectReader as ObjectReader
from penstock.pipes.map.repeat import Repeater as Repeater
from penstock.pipes.map.shuffle import Shuffler as Shuffler
from penstock.pipes.map.split import UnZipper as UnZipper
from penstock.pipes.map.subset import Subset as Subset
from penstock.pipes.map.tars import TarReader as TarReader
from penstock.pipes.map.transform import Mapper as Mapper
