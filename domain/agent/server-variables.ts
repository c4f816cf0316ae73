/**
 * The variables of the host that an agent's MCP servers read. The agent's command starts the servers, so it gets each
 * value. The name differs from the names of the agent and of other servers, so a server's key is not taken for the
 * model's key.
 */
import type { AgentSkill, EnvPlan } from '../plan/plan.ts';

export interface ServerVariable {
  /** The name that the server reads. */
  readonly name: string;
  /** The name in the environment of the agent's command. */
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

/** The variables of all servers, as variables of the agent's command. */
export function listServerVariables(skills: readonly AgentSkill[]): readonly EnvPlan[] {
  return skills.flatMap(serverVariables).map(({ handedAs, value }) => ({ name: handedAs, value }));
}
