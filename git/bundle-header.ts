/** The header of a git bundle (version 2), which precedes the pack: required commits, and references. */

export interface BundleHeader {
  /** Commits that its reader must have. */
  readonly needs: readonly string[];
  readonly refs: readonly { readonly commit: string; readonly name: string }[];
  readonly bytes: number;
}

export const HEADER_BYTES = 16 * 1024;
const SIGNATURE = '# v2 git bundle\n';

/**
 * @param start  the first HEADER_BYTES bytes of the bundle, or all of a shorter bundle
 * @throws Error if the bytes are not a git bundle
 */
export function readBundleHeader(start: Uint8Array): BundleHeader {
  const text = Buffer.from(start.subarray(0, HEADER_BYTES)).toString('latin1');
  const end = text.indexOf('\n\n');
  if (!text.startsWith(SIGNATURE) || end === -1) throw new Error('it is no git bundle');
  const needs: string[] = [];
  const refs: { commit: string; name: string }[] = [];
  for (const line of text.slice(SIGNATURE.length, end).split('\n')) {
    const match = /^(-?)([0-9a-f]{40}) ?(.*)$/.exec(line);
    if (match === null) throw new Error('it is no git bundle: its header has a line that says nothing');
    if (match[1] === '-') needs.push(match[2]!);
    else refs.push({ commit: match[2]!, name: match[3]! });
  }
  if (refs.length === 0) throw new Error('it is no git bundle: it names no commit');
  return { needs, refs, bytes: end + 2 };
}
