/**
 * Fetches agents' skills `remote:` once, at admission. The admitted plan contains their text, so a document that
 * changes later does not change the run. A retry has the same text; a fork runs the stages whose document differs.
 */
import { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { type AgentSkill, PLAN_LIMITS, type Plan, type StagePlan } from '../../domain/plan/plan.ts';
import { answeringOf } from '../../domain/plan/work.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { NewRunEvent } from '../../domain/run/event.ts';
import {
  describeRemote,
  type FetchAgentSkill,
  REMOTE_SKILL_LIMITS,
  type RemoteSource,
  AgentSkillUnavailable,
} from '../ports/remote-skills.ts';

export interface FetchedAgentSkill {
  /** `remote:OWNER/NAME/SKILL`. */
  readonly source: string;
  readonly sha256: string;
  readonly sizeBytes: number;
}

interface FetchResult {
  readonly plan: Plan;
  /** The skills in the plan's order, each once. */
  readonly skills: readonly FetchedAgentSkill[];
}

/**
 * Replaces the remote skills of the plan by their texts. Skips agents that are played: they read no document.
 * @param fetch undefined if this worker fetches no skills
 * @throws CodedError `admit/skill-unavailable`, `run/too-large`
 */
export async function withRemoteAgentSkills(fetch: FetchAgentSkill | undefined, plan: Plan): Promise<FetchResult> {
  const sources = sourcesOf(plan);
  if (sources.size === 0) return { plan, skills: [] };
  if (sources.size > REMOTE_SKILL_LIMITS.count)
    throw new CodedError(
      'run/too-large',
      `the plan has ${sources.size} different agent skills \`remote:\`; a run fetches at most ${REMOTE_SKILL_LIMITS.count}: use agent skills \`file:\``,
    );
  const signal = AbortSignal.timeout(REMOTE_SKILL_LIMITS.timeoutMs);
  const texts = new Map<string, string>();
  const skills = await Promise.all(
    [...sources].map(async ([source, { from, stage }]): Promise<FetchedAgentSkill> => {
      if (fetch === undefined) throw createUnavailableError(source, stage, 'this worker does not fetch agent skills');
      const bytes = await fetch(from, signal).catch((error: unknown) => {
        throw error instanceof AgentSkillUnavailable ? createUnavailableError(source, stage, error.message) : error;
      });
      texts.set(source, documentIn(bytes, source, stage));
      return { source, sha256: createHash('sha256').update(bytes).digest('hex'), sizeBytes: bytes.byteLength };
    }),
  );
  const stages = plan.stages.map((stage) => withTexts(stage, texts));
  return { plan: { ...plan, stages }, skills };
}

/** Records the hash of each document in the log of the run. */
export function createFetchEvents(skills: readonly FetchedAgentSkill[], atMs: number): readonly NewRunEvent[] {
  return skills.map(({ source, sha256, sizeBytes }) => ({
    id: EVENT_ID.skillFetched(source),
    atMs,
    body: {
      type: 'notice',
      level: 'info',
      message: `the agent skill ${source} was fetched: sha256 ${sha256}, ${sizeBytes} bytes`,
    },
  }));
}

function sourcesOf({ stages }: Plan): ReadonlyMap<string, { readonly from: RemoteSource; readonly stage: string }> {
  const sources = new Map<string, { readonly from: RemoteSource; readonly stage: string }>();
  for (const { id, work } of stages)
    for (const skill of remoteOf(work)) {
      const source = describeRemote(skill);
      const name = nameOf(skill);
      if (name.length > PLAN_LIMITS.nameLength)
        throw createUnavailableError(
          source,
          id,
          `its name has ${name.length} characters, more than ${PLAN_LIMITS.nameLength}`,
        );
      if (!sources.has(source)) sources.set(source, { from: skill, stage: id });
    }
  return sources;
}

function remoteOf(work: StagePlan['work']): readonly RemoteSource[] {
  const agent = answeringOf(work);
  if (agent === null || agent.played === true) return [];
  return agent.skills.flatMap((skill) => (skill.kind === 'remote' ? [skill] : []));
}

function withTexts(stage: StagePlan, texts: ReadonlyMap<string, string>): StagePlan {
  const agent = answeringOf(stage.work);
  if (agent === null || remoteOf(agent).length === 0) return stage;
  const skills = agent.skills.map((skill): AgentSkill => {
    if (skill.kind !== 'remote') return skill;
    return { kind: 'inline', name: nameOf(skill), content: texts.get(describeRemote(skill))! };
  });
  return { ...stage, work: { ...agent, skills } };
}

/** Returns the name of the skill's file in the guest. */
function nameOf({ repository, skill }: RemoteSource): string {
  return skill ?? repository.split('/')[1]!;
}

/** @throws CodedError `admit/skill-unavailable` if the document is not text, because a plan contains only text */
function documentIn(bytes: Uint8Array, source: string, stage: string): string {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(bytes));
    if (text.trim() !== '' && !text.includes('\0')) return text;
  } catch {
    // The error below reports it.
  }
  throw createUnavailableError(source, stage, 'the document is empty or is not UTF-8 text');
}

function createUnavailableError(source: string, stage: string, reason: string): CodedError {
  return new CodedError(
    'admit/skill-unavailable',
    `the agent skill ${source} of stage ${stage} cannot be fetched: ${reason}`,
  );
}
