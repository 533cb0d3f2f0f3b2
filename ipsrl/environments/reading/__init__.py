"""Reading of answers in text: spelling, numbers, arithmetic, stop strings, processes of verifiers.

The modules that read expressions, numbers and words need only the standard library and each other: the processes that
read answers then import little.
"""
