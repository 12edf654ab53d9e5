"""Pictures of chains: nodes, their layout, SVG and Mermaid."""
