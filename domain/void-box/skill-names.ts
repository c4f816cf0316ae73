import type { AgentSkill } from '../plan/plan.ts';

/** Returns the type and the id that Void-Box's events give an agent skill. */
export function nameSkill(skill: AgentSkill): { readonly type: string; readonly id: string } {
  switch (skill.kind) {
    case 'agent':
    case 'cli':
    case 'mcp':
      return { type: skill.kind, id: skill.name };
    case 'file':
      return { type: 'file', id: skill.source.path };
    case 'remote':
      return { type: 'remote', id: `${skill.repository}${skill.skill === null ? '' : `/${skill.skill}`}` };
    case 'image':
      return { type: 'oci', id: skill.image };
    case 'server':
      return { type: 'mcp', id: skill.command };
    case 'inline':
      return { type: 'inline', id: skill.name };
  }
}
