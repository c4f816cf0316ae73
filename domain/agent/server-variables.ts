/**
 * What an agent's MCP servers read of the host. The agent's command starts them, so it has each value, by a name that is neither
 * the agent's nor another server's: a server's key is not mistaken for the model's.
 */
import type { AgentSkill, EnvPlan } from '../plan/plan.ts';

export interface ServerVariable {
  /** As the server reads it. */
  readonly name: string;
  /** Of the agent's command. */
  readonly handedAs: string;
  readonly value: Extract<EnvPlan['value'], { readonly kind: 'from-host' }>;
}

/** @param index  of the server in the agent's skills */
export function serverVariables(skill: AgentSkill, index: number): readonly ServerVariable[] {
  if (skill.kind !== 'server') return [];
  return skill.env.flatMap(({ name, value }): readonly ServerVariable[] =>
    value.kind === 'from-host' ? [{ name, handedAs: `VOIDBOX_MCP_${index + 1}_${name}`, value }] : [],
  );
}

/** Those of all servers, as variables of the agent's command. */
export function listServerVariables(skills: readonly AgentSkill[]): readonly EnvPlan[] {
  return skills.flatMap(serverVariables).map(({ handedAs, value }) => ({ name: handedAs, value }));
}
