"""Where does each replica run, spot or on-demand?"""
