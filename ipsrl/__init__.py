"""A wind tunnel for reinforcement-learning objectives: what does an objective do to what a policy can produce?"""
