import { CodedError } from '../../domain/errors/coded-error.ts';
import type { AccessStore } from '../../store/access.ts';

/** The store of a state folder without a database: it has no token and no change. */
export const NO_TOKENS: AccessStore = {
  tokens: {
    create: refuse,
    list: () => Promise.resolve([]),
    listPage: () => Promise.resolve([]),
    find: () => Promise.resolve(null),
    revoke: () => Promise.resolve(null),
    touch: () => Promise.resolve(),
  },
  audit: { add: refuse, list: () => Promise.resolve([]) },
  close: () => Promise.resolve(),
};

function refuse(): Promise<never> {
  return Promise.reject(new CodedError('api/access-unavailable', 'the state folder has no database of tokens'));
}
