"""The actors around engine and control, their handles, how Ray is started or joined, how a mirror is launched."""
