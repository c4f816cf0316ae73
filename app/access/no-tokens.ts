import { CodedError } from '../../domain/errors/coded-error.ts';
import type { AccessStore } from '../../store/access.ts';

/** The store of a state folder without a database: it has no token, no change and no deployment. */
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
  triggers: {
    deployments: {
      deploy: refuse,
      find: () => Promise.resolve(null),
      list: () => Promise.resolve([]),
      findVersion: () => Promise.resolve(null),
      listVersions: () => Promise.resolve([]),
      pause: () => Promise.resolve(null),
      resume: () => Promise.resolve(null),
      enable: () => Promise.resolve(null),
      delete: () => Promise.resolve(false),
      hasEnabled: () => Promise.resolve(false),
    },
  },
  close: () => Promise.resolve(),
};

function refuse(): Promise<never> {
  return Promise.reject(new CodedError('api/access-unavailable', 'the state folder has no database of tokens'));
}
