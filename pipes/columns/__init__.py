"""Arrow columns: conversion, files, batches and rows."""
