def figures(machines): pass
