"""The replay: event loop, composition of engines and traffic, and the report."""

from aisimulate.core.blas import use_one_blas_thread

use_one_blas_thread()
