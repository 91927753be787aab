"""Conversion of anything that may be positions to numbers: conversion, times, columns of frames, masks, foreign arrays."""
