const SEGMENT = '[A-Za-z][A-Za-z0-9_+-]*';
const ZONE = new RegExp(`^${SEGMENT}(?:/${SEGMENT}){0,2}$`);
/** Names in the spelling of the IANA database; the server of Temporal knows no other. */
const SPELLED = /^[A-Z][^/]*(?:\/[A-Z][^/]*)*$/;

/** Returns the name of a time zone in the spelling of the IANA database; null if there is no such zone. */
export function findTimeZone(name: string): string | null {
  if (name.length > 64 || !ZONE.test(name)) return null;
  let known: string;
  try {
    known = new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone;
  } catch {
    return null;
  }
  // An alias such as Asia/Kolkata keeps its name, because the canonical one may be an older name.
  return known.toLowerCase() !== name.toLowerCase() && SPELLED.test(name) ? name : known;
}
