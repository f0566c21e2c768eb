# What takes long to import, so that no call does.
import io
import tempfile

# matplotlib insists on a folder for what it keeps; there is none, and it goes on without.
make_folder, tempfile.mkdtemp = tempfile.mkdtemp, lambda **_: "/nowhere"

import matplotlib

matplotlib.use("Agg")

import json
import lxml.etree
import matplotlib.pyplot
import numpy
import openpyxl
import pandas
import PIL.Image
import scipy.interpolate
import scipy.optimize
import scipy.signal
import scipy.stats
import sklearn.cluster
import sklearn.linear_model
import sklearn.model_selection
import sqlite3
import sys

# The first figure imports more, and opens the files of fonts, which are not open in a call.
matplotlib.pyplot.plot([1])
matplotlib.pyplot.savefig(io.BytesIO())
matplotlib.pyplot.close("all")
matplotlib.font_manager._get_font.cache_clear()
tempfile.mkdtemp = make_folder
