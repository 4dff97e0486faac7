"""The other writes of a lane, each with one write in flight: positions, map blocks, and the lane's transactions."""
