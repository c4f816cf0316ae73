/** Skill documents of agents that a worker fetches from a repository. */

export interface RemoteSource {
  /** `OWNER/NAME` on GitHub. */
  readonly repository: string;
  /** The name of the skill; null for the document at the root of the repository. */
  readonly skill: string | null;
}

export const REMOTE_SKILL_LIMITS = {
  /** The size limit of one document, the same as for `file:`. */
  sizeBytes: 128 * 1024,
  /** The number of different documents in a run. */
  count: 32,
  /** The time limit for all documents of a run together, retries included. The limit of admission is 30 s. */
  timeoutMs: 20_000,
} as const;

/** Thrown if a document is unavailable; the message names its source. */
export class AgentSkillUnavailable extends Error {}

/** @throws AgentSkillUnavailable also if the document is too large, or if guests may not reach its address either */
export type FetchAgentSkill = (source: RemoteSource, signal: AbortSignal) => Promise<Uint8Array>;

/** Returns the source in the form that a spec uses. */
export function describeRemote({ repository, skill }: RemoteSource): string {
  return `remote:${repository}${skill === null ? '' : `/${skill}`}`;
}
