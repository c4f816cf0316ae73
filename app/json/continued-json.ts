/** The `--json` form of the agents that continue in a retry. */
import { sumCounts } from '../../domain/agent/budget.ts';
import type { ContinuedAgent } from '../../domain/run/agent-saves.ts';
import type { ContinuedPlan } from '../start/continue-run.ts';

export interface ContinuedJson {
  readonly continued: readonly ContinuedAgentJson[];
  readonly limits: ContinuedPlan['changed'];
}

export interface ContinuedAgentJson extends SavedFiles {
  /** The name of the stage, also of an item: `fixes[1].work`. */
  readonly stage: string;
  /** The run that has the save. */
  readonly runId: string;
  readonly attempt: string;
  /** ISO 8601. */
  readonly savedAt: string;
  readonly sessionId: string | null;
  readonly turns: number | null;
  /** How the attempt ended; null: it did not. */
  readonly ended: ContinuedAgent['ended'];
}

interface SavedFiles {
  /** Null: the save has whole folders, so that no count is known. */
  readonly changedFiles: number | null;
  readonly deletedFiles: number;
  readonly leftOutCount: number;
  readonly sizeBytes: number;
}

function filesOf({ folders }: ContinuedAgent): SavedFiles {
  const changes = folders.flatMap((folder) => (folder.changes === undefined ? [] : [folder.changes]));
  return {
    changedFiles: changes.length === 0 ? null : sumCounts(...changes.map(({ fileCount }) => fileCount)),
    deletedFiles: sumCounts(...changes.map(({ removedCount }) => removedCount)),
    leftOutCount: sumCounts(...changes.map(({ leftOutCount }) => leftOutCount)),
    sizeBytes: sumCounts(...folders.map(({ ref }) => ref.sizeBytes)),
  };
}

/** Fields of `--json` of a run whose agents continue; none of another run. */
export function toContinuedJson(continued: ContinuedPlan): ContinuedJson;
export function toContinuedJson(continued: ContinuedPlan | null): Partial<ContinuedJson>;
export function toContinuedJson(continued: ContinuedPlan | null): Partial<ContinuedJson> {
  if (continued === null) return {};
  const agents = [...continued.agents.values()].map(({ name, agent }) => {
    const { runId, execKey, savedAtMs, sessionId, turns, ended } = agent;
    return {
      stage: name,
      runId,
      attempt: execKey,
      savedAt: new Date(savedAtMs).toISOString(),
      sessionId,
      turns,
      ...filesOf(agent),
      ended,
    };
  });
  return { continued: agents, limits: continued.changed };
}
