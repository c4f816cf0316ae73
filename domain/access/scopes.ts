/** The permissions of a token. `run` and `approve` include `read`; `admin` includes all. */
export const SCOPES = ['read', 'run', 'approve', 'admin'] as const;

export type Scope = (typeof SCOPES)[number];

export function isScope(text: string): text is Scope {
  return (SCOPES as readonly string[]).includes(text);
}

export function hasScope(given: readonly Scope[], wanted: Scope): boolean {
  if (given.includes('admin') || given.includes(wanted)) return true;
  return wanted === 'read' && given.length > 0;
}
