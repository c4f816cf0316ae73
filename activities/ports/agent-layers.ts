/** Command lines of agents as VMs get them: a folder each, read-only, beside the guest's own image. */

/** By the provider whose command line it is. */
export const AGENT_LAYERS = ['claude', 'codex'] as const;
export type AgentLayer = (typeof AGENT_LAYERS)[number];

/** Where a VM that asks for the layer has it. */
export function agentLayerFolder(layer: AgentLayer): string {
  return `/opt/agents/${layer}`;
}

/** The program in it, whatever the layout of its package. */
export function agentProgram(layer: AgentLayer): string {
  return `${agentLayerFolder(layer)}/bin/${layer}`;
}
