"""A wind tunnel for reinforcement-learning objectives: what does an objective do to what a policy can produce?"""

__version__ = "0.1.0"
