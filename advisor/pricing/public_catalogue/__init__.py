"""The public catalogue of cloud machines: prices and hardware of many providers, one CSV each.

Published by SkyPilot (https://github.com/skypilot-org/skypilot-catalog, Apache-2.0). `files` finds
the files, `lines` reads one, `google` joins Google's hosts and GPUs, `reading` leaves out what has
no usable price, `offers` makes one price of each machine, region and purchase option, `machines`
describes the hardware.
"""
