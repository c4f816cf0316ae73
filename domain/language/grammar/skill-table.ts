import { LLM_PROVIDERS } from '../../plan/plan.ts';
import { BUDGET_KEY, LLM, SKILLS, SKILLS_EXAMPLE } from './agent-table.ts';
import type { MappingTable } from './table.ts';

/** The keys of the agent that answers a step machine; a box with a prompt has the same keys. */
const ANSWERING_AGENT = {
  keys: {
    llm: {
      as: 'llm',
      type: { is: 'mapping', table: LLM },
      mistaken: ['provider', 'model', 'base_url'],
      otherwise: "the spec's",
      form: 'llm: { provider: NAME }',
      doc: "Replaces the spec's `llm`. See [Agents](#agents).",
      example: { provider: 'ollama' },
    },
    skills: {
      as: 'skills',
      type: SKILLS,
      doc: 'Documents, programs and images for the agent. See [Agents](#agents).',
      example: SKILLS_EXAMPLE,
    },
    budget: {
      ...BUDGET_KEY,
      doc: 'Limits of all answers of one attempt together. See [Budgets](agents.md#budgets).',
    },
  },
} as const satisfies MappingTable;

/** A step machine as a stage's work. */
export const SKILL = {
  form: (text) => `{ use: ${text} }`,
  keys: {
    use: {
      as: 'use',
      type: { is: 'text', holds: 'path', plain: true, filled: 'name the entry or the folder of a step machine' },
      required: true,
      mistaken: ['uses', 'path', 'entry', 'file', 'skill', 'name'],
      form: 'use: ./SKILL',
      doc: "Its entry file or folder, from the spec's folder.",
      example: './skills/release',
    },
    params: {
      as: 'params',
      type: { is: 'json', holds: 'mapping', shapes: ['object'] },
      feeds: 'params',
      mistaken: ['with', 'arguments', 'parameters', 'input', 'inputs'],
      form: 'params: { NAME: VALUE }',
      doc: "Values for the step machine's params.",
      example: { place: 'Ulm' },
    },
    agent: {
      as: 'agent',
      type: { is: 'choice', words: LLM_PROVIDERS, holds: 'a provider', table: ANSWERING_AGENT },
      otherwise: "the spec's `llm`",
      doc: 'The agent that answers the prompts.',
      example: { llm: { provider: 'claude' }, skills: ['file:style.md'], budget: { max_turns: 40 } },
    },
  },
  misplaced: { '`agent`': ANSWERING_AGENT.keys },
} as const satisfies MappingTable;
