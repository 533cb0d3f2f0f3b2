"""Learning from data of another distribution than the one that counts: regression under shift, and pessimism."""
