import type { LlmPlan, LlmProvider } from '../domain/plan/plan.ts';
import { claude } from './claude.ts';
import { claudePersonal } from './claude-personal.ts';
import { codex } from './codex.ts';
import { codexPersonal } from './codex-personal.ts';
import { custom } from './custom.ts';
import { lmStudio } from './lm-studio.ts';
import { ollama } from './ollama.ts';
import type { AgentProvider } from './provider.ts';

const PROVIDERS: Readonly<Record<LlmProvider, AgentProvider>> = {
  claude,
  'claude-personal': claudePersonal,
  codex,
  'codex-personal': codexPersonal,
  ollama,
  'lm-studio': lmStudio,
  custom,
};

/** Without `llm` it is Claude. */
export function providerOf(llm: LlmPlan | null): AgentProvider {
  return PROVIDERS[llm?.provider ?? 'claude'];
}
