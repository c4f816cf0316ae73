/** Which command line calls each provider, and what a VM needs for it. */
import type { AgentWork, ImagePlan, LlmPlan, LlmProvider, ScopePlan, StagePlan } from '../plan/plan.ts';
import { answeringOf } from '../plan/work.ts';
import { guestBaseUrl, localBaseUrl } from './provider-hosts.ts';

export type AgentCli = 'claude' | 'codex';

interface CliNeeds {
  /** The default memory of the VM. */
  readonly memoryMib: number;
  /** Below this size, the kernel kills the command line before it prints anything. */
  readonly leastMemoryMib: number;
  /** Null: the default image of the guest is enough. */
  readonly image: 'dev' | null;
}

export const CLI_NEEDS: Readonly<Record<AgentCli, CliNeeds>> = {
  // Its binary is linked against glibc.
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

/** The command line of the provider; without `llm`, Claude's. */
export function cliOf(llm: Pick<LlmPlan, 'provider'> | null): AgentCli {
  return CLIS[llm?.provider ?? 'claude'];
}

export interface AgentParts {
  /** Command lines, each once. */
  readonly layers: readonly AgentCli[];
  /**
   * The image that the spec sets, or else the image that a command line needs; undefined: the default image of the
   * guest.
   */
  readonly image: ImagePlan | undefined;
}

/** The parts that the VM of a scope contains for its agents. An agent that is played needs no parts. */
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

/** The model settings with the URL that a program in the guest uses. */
export function llmInGuest({ llm }: Pick<AgentWork, 'llm'>): LlmPlan | null {
  if (llm === null) return null;
  const baseUrl = llm.baseUrl === null || llm.baseUrl === '' ? localBaseUrl(llm.provider) : guestBaseUrl(llm.baseUrl);
  return { ...llm, baseUrl };
}
