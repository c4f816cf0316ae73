/** Signals and updates without a handler: how many of them become notices of a run, and the text of a notice. */

/** Limit of notices about signals and updates together; the last notice reports that no more follow. */
export const MOST_STRAYS = 5;
/** Limit of the name, which its sender chooses. */
const NAME_CHARACTERS = 100;
/** Limit of a notice. */
export const STRAY_CHARACTERS = 600;

export type StrayKind = 'signal' | 'update';

/** @param known  names that the run handles */
export function describeStray(kind: StrayKind, name: string, known: readonly string[]): string {
  const what = `the ${kind} "${shortName(name)}" has no handler and was ${kind === 'signal' ? 'ignored' : 'refused'}`;
  return `${what}: a run takes the ${kind}${known.length === 1 ? '' : 's'} ${known.map((one) => `"${one}"`).join(', ')}`;
}

/** @param number  of the notice, from 1 */
export function createStrayNotice(message: string, number: number): string {
  return number < MOST_STRAYS ? message : `${message}. No more notices of this kind follow`;
}

function shortName(name: string): string {
  const characters = Array.from(name.slice(0, 2 * NAME_CHARACTERS + 2));
  return characters.length <= NAME_CHARACTERS ? name : `${characters.slice(0, NAME_CHARACTERS).join('')}…`;
}
