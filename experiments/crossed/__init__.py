"""Two techniques crossed: what studies of a technique beside another share."""
