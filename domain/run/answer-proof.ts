/**
 * Proofs of answers to approvals. The service, or a command of the owner, writes a proof as a mark of the run before the
 * run gets the answer. Only the owner of the state folder can write marks, so no client of the Temporal server can make
 * a proof, whatever it sends to the run.
 */
import { sanitizeLine } from '../security/sanitize.ts';
import { toCanonicalJson } from '../units/canonical-json.ts';
import { quote } from '../units/quote.ts';

/** The sender of an answer, as the proof names it. A link is signed for one name, so it has no groups. */
export type Answerer =
  | { readonly kind: 'owner' }
  | { readonly kind: 'token'; readonly name: string; readonly groups: readonly string[] }
  | { readonly kind: 'link'; readonly name: string };

export interface AnswerProof {
  readonly answerer: Answerer;
  readonly decision: 'approve' | 'reject';
  /** The hash of `describeAnswer`. */
  readonly digest: string;
}

export interface ProvenAnswer {
  readonly decision: 'approve' | 'reject';
  readonly by: string | null;
  readonly comment: string | null;
  /** The fields as the client sent them. */
  readonly fields: unknown;
}

/** Returns SHA-256 in hexadecimal digits. */
export type HashText = (text: string) => string;

/**
 * Names the mark of a proof. Each name, and the owner, has one for each attempt of a question: a later answer replaces
 * the proof of an earlier one that the run has not got.
 * @param name  the name of the token or of the link; null: the owner
 */
export function nameProof(hash: HashText, execKey: string, name: string | null): string {
  return `proof-${hash(JSON.stringify([execKey, name]))}`;
}

/** Returns the name under which the sender answers; null: the owner. */
export function findAnswererName(answerer: Answerer): string | null {
  return answerer.kind === 'owner' ? null : answerer.name;
}

/** The text whose hash a proof has. The run records names and comments in the same form. */
export function describeAnswer({ decision, by, comment, fields }: ProvenAnswer): string {
  const line = (text: string | null): string | null => (text === null ? null : sanitizeLine(text));
  return toCanonicalJson([decision, line(by), line(comment), fields ?? {}]);
}

/** Returns null for a mark of another shape, such as one of a later build: it proves nothing. */
export function readProof(mark: unknown): AnswerProof | null {
  const { answerer, decision, digest } = (mark ?? {}) as Readonly<Record<string, unknown>>;
  if ((decision !== 'approve' && decision !== 'reject') || typeof digest !== 'string') return null;
  const known = readAnswerer(answerer);
  return known === null ? null : { answerer: known, decision, digest };
}

function readAnswerer(value: unknown): Answerer | null {
  const { kind, name, groups } = (value ?? {}) as Readonly<Record<string, unknown>>;
  if (kind === 'owner') return { kind };
  if (kind === 'link' && typeof name === 'string') return { kind, name };
  if (kind !== 'token' || typeof name !== 'string' || !Array.isArray(groups)) return null;
  return { kind, name, groups: groups.filter((each) => typeof each === 'string') };
}

/** The facts that decide whether a token or a link may answer a question. */
export interface AnswerRules {
  /** The names and groups that may answer; empty: all. */
  readonly by: readonly string[];
  readonly selfApproval: boolean;
  /** The tokens that started the run; null: nothing proves who did. */
  readonly starters: readonly string[] | null;
}

/** @returns why the token or the link may not answer; null: it may */
export function findAnswerProblem(
  answerer: Exclude<Answerer, { readonly kind: 'owner' }>,
  { by, selfApproval, starters }: AnswerRules,
): string | null {
  const { name } = answerer;
  if (answerer.kind === 'link' && !by.includes(name))
    return `its \`by\` does not contain ${quote(name)}, for which the link is`;
  if (answerer.kind === 'token' && by.length > 0 && ![name, ...answerer.groups].some((each) => by.includes(each)))
    return `it asks ${by.map(sanitizeLine).join(', ')}`;
  if (selfApproval) return null;
  if (starters === null) return 'it has `self_approval: false`, and nothing proves who started the run';
  return starters.includes(name) ? 'it has `self_approval: false`, and the token started the run' : null;
}
