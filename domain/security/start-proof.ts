/**
 * Proves that the run of an id is the one that this host started. The start writes a random key to the state folder, and
 * a code of its request, made with the key, into the request. Another client of the Temporal server cannot make the code
 * for a request of its own, and a copy of the code belongs to the same request only.
 */
import { toCanonicalJson } from '../units/canonical-json.ts';

/** Computes HMAC-SHA-256 in hexadecimal digits. */
export type ComputeCode = (key: string, text: string) => string;

/** The fields of a request that the code covers: all that decides what the run does. */
const COVERED = ['spec', 'plan', 'planRef', 'name', 'params', 'input', 'origin', 'mock', 'mockAgents'] as const;

/** @param request  the request of the workflow; fields that it does not have are left out */
export function computeStartProof(
  compute: ComputeCode,
  key: string,
  runId: string,
  request: Readonly<Partial<Record<(typeof COVERED)[number], unknown>>>,
): string {
  const covered = COVERED.flatMap((name) => (request[name] === undefined ? [] : [[name, request[name]] as const]));
  return compute(key, toCanonicalJson([runId, covered]));
}

/** Returns the key of a start in its mark; null: an earlier build wrote the mark. */
export function readStartKey(mark: unknown): string | null {
  const { startKey } = (mark ?? {}) as Readonly<Record<string, unknown>>;
  return typeof startKey === 'string' ? startKey : null;
}
