import { CodedError } from '../../domain/errors/coded-error.ts';
import type { AccessStore } from '../../store/access.ts';
import type { SecretId } from '../../store/triggers.ts';

/** The store of a state folder without a database: it has no token, no change, no deployment and no secret. */
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
      readMark: () => Promise.resolve(''),
      findVersion: () => Promise.resolve(null),
      findVersions: () => Promise.resolve([]),
      listVersions: () => Promise.resolve([]),
      pause: () => Promise.resolve(null),
      resume: () => Promise.resolve(null),
      enable: () => Promise.resolve(null),
      delete: () => Promise.resolve(false),
      hasEnabled: () => Promise.resolve(false),
      hasFolder: () => Promise.resolve(false),
      listFollowed: () => Promise.resolve([]),
      listLinks: () => Promise.resolve([]),
    },
    schedules: {
      findOwner: refuse,
      listPauses: () => Promise.resolve([]),
      pause: () => Promise.resolve(false),
      resume: () => Promise.resolve(false),
    },
    secrets: {
      put: refuse,
      rotate: (secrets) => Promise.resolve({ kind: 'absent', ids: secrets.map(toId) }),
      list: () => Promise.resolve([]),
      select: () => Promise.resolve([]),
      delete: (ids) => Promise.resolve({ kind: 'absent', ids }),
      listOfOtherKeys: () => Promise.resolve([]),
      replaceSealed: () => Promise.resolve(false),
      dropPrevious: () => Promise.resolve(),
    },
    deliveries: {
      accept: refuse,
      acceptAll: refuse,
      find: () => Promise.resolve(null),
      readBody: () => Promise.resolve(null),
      readBodies: () => Promise.resolve(new Map()),
      list: () => Promise.resolve([]),
      listLatest: () => Promise.resolve([]),
      claim: () => Promise.resolve([]),
      decide: () => Promise.resolve(null),
      record: () => Promise.resolve(null),
      renew: () => Promise.resolve(),
      release: () => Promise.resolve(),
      listMembers: () => Promise.resolve([]),
      listOpenRuns: () => Promise.resolve([]),
      findOldestRun: () => Promise.resolve(null),
      recordRunEnd: () => Promise.resolve(0),
      listFollowers: () => Promise.resolve([]),
      sweep: () => Promise.resolve(0),
      releasePaused: () => Promise.resolve(),
      hasOpen: () => Promise.resolve(false),
      countOpen: () => Promise.resolve(0),
      findNextDue: () => Promise.resolve(null),
      wake: () => undefined,
      listen: () => Promise.resolve(() => Promise.resolve()),
    },
    sources: {
      begin: refuse,
      keepOnly: () => Promise.resolve(),
      acceptOnce: refuse,
      skip: refuse,
      findSeen: () => Promise.resolve([]),
      renew: () => Promise.resolve(),
      report: () => Promise.resolve(),
      listProblems: () => Promise.resolve([]),
      sweep: () => Promise.resolve(),
    },
    approvalLinks: {
      claim: refuse,
      use: refuse,
      release: () => Promise.resolve(),
      isUsed: () => Promise.resolve(false),
      sweep: () => Promise.resolve(),
    },
    notifications: {
      listWatched: () => Promise.resolve([]),
      advance: () => Promise.resolve(false),
      add: refuse,
      find: () => Promise.resolve(null),
      list: () => Promise.resolve([]),
      claim: () => Promise.resolve([]),
      record: () => Promise.resolve(false),
      replay: () => Promise.resolve(false),
      hasOpen: () => Promise.resolve(false),
      findNextDue: () => Promise.resolve(null),
      sweep: () => Promise.resolve(),
    },
  },
  close: () => Promise.resolve(),
};

function toId({ name, deployment }: SecretId): SecretId {
  return { name, deployment };
}

function refuse(): Promise<never> {
  return Promise.reject(new CodedError('api/access-unavailable', 'the state folder has no database of tokens'));
}
