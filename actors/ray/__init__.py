"""Runs engine and control as Ray actors: the actors, their handles, the start of Ray and of a mirror."""
