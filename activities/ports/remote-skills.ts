/** Documents of agents that are fetched from a repository. */

export interface RemoteSource {
  /** `OWNER/NAME`, of GitHub. */
  readonly repository: string;
  /** Null: the document at its root. */
  readonly skill: string | null;
}

export const REMOTE_SKILL_LIMITS = {
  /** Of one document, as of one that `file:` names. */
  sizeBytes: 128 * 1024,
  /** Different ones of a run. */
  count: 32,
  /** For all of a run together, tries again included. Admission has 30 s. */
  timeoutMs: 20_000,
} as const;

/** Why a document is not to be had; says from where. */
export class AgentSkillUnavailable extends Error {}

/** @throws AgentSkillUnavailable also if it is too large, or if no guest may look either */
export type FetchAgentSkill = (source: RemoteSource, signal: AbortSignal) => Promise<Uint8Array>;

/** As a spec writes it. */
export function describeRemote({ repository, skill }: RemoteSource): string {
  return `remote:${repository}${skill === null ? '' : `/${skill}`}`;
}
