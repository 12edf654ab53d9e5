# The map-style operator classes of other packages: none that are known of here. See __init__.pyi.
