"""A wind tunnel for reinforcement-learning objectives: what does an objective do to the outcomes a policy can produce?"""
