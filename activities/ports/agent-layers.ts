/** Command lines of agents in VMs: a read-only folder for each, in addition to the guest's own image. */

/** The layers, by the provider whose command line they contain. */
export const AGENT_LAYERS = ['claude', 'codex'] as const;
export type AgentLayer = (typeof AGENT_LAYERS)[number];

/** Returns the folder of the layer in a VM that requests it. */
export function agentLayerFolder(layer: AgentLayer): string {
  return `/opt/agents/${layer}`;
}

/** Returns the path of the program in the layer, whatever the layout of its package. */
export function agentProgram(layer: AgentLayer): string {
  return `${agentLayerFolder(layer)}/bin/${layer}`;
}
