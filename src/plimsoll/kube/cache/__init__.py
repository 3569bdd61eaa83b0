"""The local cache: reflectors list and watch, stores hold typed objects, informers know how fresh each kind is."""
