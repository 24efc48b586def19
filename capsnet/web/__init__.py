"""The explorer: one page that shows what capsules know, served from the package.

capsnet explore, or serve(weights="runs/mine") from capsnet.web.server
"""
