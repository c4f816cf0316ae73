/** Remedies for mistakes about sessions, whichever machine has them. */
export const LIST_SESSIONS = 'List sessions: voidbox session list';
export const CHOOSE_ID = 'Choose another --id, or continue it: voidbox session status ID';
