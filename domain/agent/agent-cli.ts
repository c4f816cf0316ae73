/** The command line that each provider is called by, and what a VM must have for it. */
import type { AgentWork, ImagePlan, LlmPlan, LlmProvider, ScopePlan, StagePlan } from '../plan/plan.ts';
import { answeringOf } from '../plan/work.ts';
import { guestBaseUrl, localBaseUrl } from './provider-hosts.ts';

export type AgentCli = 'claude' | 'codex';

interface CliNeeds {
  /** What a VM gets where nothing is said. */
  readonly memoryMib: number;
  /** Below it the command line is killed before it says anything. */
  readonly leastMemoryMib: number;
  /** Null: the guest's own image is enough. */
  readonly image: 'dev' | null;
}

export const CLI_NEEDS: Readonly<Record<AgentCli, CliNeeds>> = {
  // It is linked against glibc.
  claude: { memoryMib: 1_024, leastMemoryMib: 384, image: 'dev' },
  codex: { memoryMib: 512, leastMemoryMib: 256, image: null },
};

const CLIS: Readonly<Record<LlmProvider, AgentCli>> = {
  claude: 'claude',
  'claude-personal': 'claude',
  codex: 'codex',
  'codex-personal': 'codex',
  ollama: 'claude',
  'lm-studio': 'claude',
  custom: 'claude',
};

/** Without `llm` it is Claude's. */
export function cliOf(llm: Pick<LlmPlan, 'provider'> | null): AgentCli {
  return CLIS[llm?.provider ?? 'claude'];
}

export interface AgentParts {
  /** Command lines, each once. */
  readonly layers: readonly AgentCli[];
  /** The one that is said, else the one that a command line needs; undefined: the guest's own. */
  readonly image: ImagePlan | undefined;
}

/** What the VM of a scope has for the agents in it. One that is played needs nothing. */
export function agentPartsOf(
  { id, sandbox }: Pick<ScopePlan, 'id' | 'sandbox'>,
  stages: readonly Pick<StagePlan, 'scope' | 'work'>[],
): AgentParts {
  const clis = stages.flatMap(({ scope, work }) => {
    const answering = scope === id ? answeringOf(work) : null;
    return answering === null || answering.played === true ? [] : [cliOf(answering.llm)];
  });
  const layers = [...new Set(clis)];
  const kind = layers.map((cli) => CLI_NEEDS[cli].image).find((needed) => needed !== null) ?? null;
  return { layers, image: sandbox.image ?? (kind === null ? undefined : { kind }) };
}

/** The model as a program in the guest reaches it. */
export function llmInGuest({ llm }: Pick<AgentWork, 'llm'>): LlmPlan | null {
  if (llm === null) return null;
  const baseUrl = llm.baseUrl === null || llm.baseUrl === '' ? localBaseUrl(llm.provider) : guestBaseUrl(llm.baseUrl);
  return { ...llm, baseUrl };
}
