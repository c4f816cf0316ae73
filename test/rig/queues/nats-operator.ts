/** An operator of NATS with its accounts and users, as `nsc` makes them: keys, and JWTs that the keys sign. */
import { randomUUID } from 'node:crypto';
import { nkeys } from '@nats-io/transport-node';

type KeyPair = ReturnType<typeof nkeys.createUser>;

/** Without limits, with JetStream. */
const ACCOUNT_LIMITS = {
  subs: -1,
  data: -1,
  payload: -1,
  imports: -1,
  exports: -1,
  wildcards: true,
  conn: -1,
  leaf: -1,
  mem_storage: -1,
  disk_storage: -1,
  streams: -1,
  consumer: -1,
};
/** The system account has no JetStream. */
const SYSTEM_LIMITS = { ...ACCOUNT_LIMITS, mem_storage: 0, disk_storage: 0, streams: 0, consumer: 0 };

export interface NatsOperator {
  /** Lines of the configuration of a server that trusts the operator. */
  readonly settings: readonly string[];
  /** Makes a user of its account, and returns the text of its file of credentials. */
  makeCreds(change?: CredsChange): string;
}

export interface CredsChange {
  /** Seconds since the epoch. */
  readonly expiresAt?: number;
  /** Subjects to which the user may publish. Absent: all. */
  readonly publish?: readonly string[];
}

export function createNatsOperator(): NatsOperator {
  const operator = nkeys.createOperator();
  const [account, system] = [nkeys.createAccount(), nkeys.createAccount()];
  const [own, systems] = [account, system].map((each) => each.getPublicKey());
  const operatorJwt = writeJwt(operator, operator, 'operator', { system_account: systems });
  const accountJwt = writeJwt(operator, account, 'account', { limits: ACCOUNT_LIMITS });
  const systemJwt = writeJwt(operator, system, 'account', { limits: SYSTEM_LIMITS });
  return {
    settings: [
      `operator: "${operatorJwt}"`,
      'resolver: MEMORY',
      `resolver_preload: { ${own}: "${accountJwt}", ${systems}: "${systemJwt}" }`,
    ],
    makeCreds({ expiresAt, publish } = {}) {
      const user = nkeys.createUser();
      const facts = { pub: publish === undefined ? {} : { allow: publish }, sub: {}, subs: -1, data: -1, payload: -1 };
      const jwt = writeJwt(account, user, 'user', facts, expiresAt);
      return writeCreds(jwt, Buffer.from(user.getSeed()).toString());
    },
  };
}

function writeJwt(issuer: KeyPair, subject: KeyPair, type: string, facts: object, expiresAt?: number): string {
  const claims = {
    jti: randomUUID(),
    iat: Math.floor(Date.now() / 1_000),
    iss: issuer.getPublicKey(),
    sub: subject.getPublicKey(),
    name: type,
    ...(expiresAt === undefined ? {} : { exp: expiresAt }),
    nats: { ...facts, type, version: 2 },
  };
  const signed = [{ typ: 'JWT', alg: 'ed25519-nkey' }, claims].map((part) => encode(JSON.stringify(part))).join('.');
  return `${signed}.${encode(issuer.sign(Buffer.from(signed)))}`;
}

function encode(bytes: Uint8Array | string): string {
  return Buffer.from(bytes).toString('base64url');
}

/** The form that `nsc` writes. */
function writeCreds(jwt: string, seed: string): string {
  return [
    '-----BEGIN NATS USER JWT-----',
    jwt,
    '------END NATS USER JWT------',
    '',
    '************************* IMPORTANT *************************',
    'NKEY Seed printed below can be used to sign and prove identity.',
    '',
    '-----BEGIN USER NKEY SEED-----',
    seed,
    '------END USER NKEY SEED------',
    '',
  ].join('\n');
}
