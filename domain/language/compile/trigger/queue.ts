/** Compiles a trigger that reads messages of a queue. */
import {
  formatBrokerAddress,
  formatNatsServer,
  isLocalHost,
  type NatsServer,
  parseNatsServer,
} from '../../../delivery/queue-address.ts';
import {
  type NatsLogin,
  type NatsQueue,
  QUEUE_DEFAULTS,
  QUEUE_LIMITS,
  type QueueSource,
} from '../../../delivery/queue-source.ts';
import { quote } from '../../../units/quote.ts';
import type { Spec } from '../../read/spec.ts';
import type { Problems } from '../../text/diagnostics.ts';
import type { Located } from '../../text/tree.ts';

type NatsSpec = NonNullable<Spec['on'][number]['queue']>['nats'];

interface QueueContext {
  /** The trigger in a message. */
  readonly what: string;
  readonly gaps: Spec['gaps'];
  readonly problems: Problems;
}

/** Printable characters of ASCII but those that JetStream gives a meaning. */
const NAME = /^(?!.*[.*>/\\])[\x21-\x7e]+$/;
const SUBJECT = /^(?:[^\s.*>\p{C}]+|\*)(?:\.(?:[^\s.*>\p{C}]+|\*))*(?:\.>)?$|^>$/u;
const USER = /^[^\p{C}]+$/u;

/** Returns null if a mistake in the queue was reported. */
export function compileQueue({ nats }: { readonly nats: NatsSpec }, context: QueueContext): QueueSource | null {
  const { problems, what } = context;
  const errorsBefore = problems.errorCount();
  const servers = compileServers(nats, context);
  for (const [key, name] of [
    ['stream', nats.stream],
    ['consumer', nats.consumer],
  ] as const)
    checkName(key, name, context);
  const { subject } = nats;
  if (subject !== null && subject.value !== '' && !isSubject(subject.value))
    problems.error(
      'spec/bad-value',
      subject.at,
      `\`subject\` of ${what} is ${quote(subject.value)}, which is not a subject of NATS`,
      `write words with dots between them, such as orders.new, orders.* or orders.>, at most ${QUEUE_LIMITS.subjectCharacters} characters`,
    );
  const login = compileLogin(nats, context);
  checkProtection(servers, nats, login, context);
  if (problems.errorCount() > errorsBefore) return null;
  const compiled: NatsQueue = {
    servers: servers.map(formatNatsServer),
    stream: nats.stream.value,
    consumer: nats.consumer.value,
    subject: subject?.value ?? QUEUE_DEFAULTS.subject,
    start: nats.start?.value ?? QUEUE_DEFAULTS.start,
    maxDeliver: nats.maxDeliver ?? QUEUE_DEFAULTS.maxDeliver,
    login,
    tlsCa: nats.tlsCa?.value ?? QUEUE_DEFAULTS.tlsCa,
  };
  return { kind: 'queue', nats: compiled };
}

function isSubject(text: string): boolean {
  return text.length <= QUEUE_LIMITS.subjectCharacters && SUBJECT.test(text);
}

function compileServers({ servers }: NatsSpec, { what, problems }: QueueContext): readonly NatsServer[] {
  // The reader has already reported an absent or an empty list.
  const texts = servers ?? [];
  const over = texts[QUEUE_LIMITS.servers];
  if (over !== undefined)
    problems.error(
      'spec/too-large',
      over.at,
      `\`servers\` of ${what} has ${texts.length} addresses; at most ${QUEUE_LIMITS.servers} are allowed`,
      'name some servers of the cluster',
    );
  const parsed = texts.slice(0, QUEUE_LIMITS.servers).flatMap(({ value, at }) => {
    const server = parseNatsServer(value);
    if (server !== null) return [{ server, at }];
    problems.error(
      'spec/bad-value',
      at,
      `\`servers\` of ${what} has ${quote(hideLogin(value))}, which is not the address of a server`,
      'write tls://HOST:PORT or nats://HOST:PORT; a login belongs into `token`, `user` and `password`, or `creds`',
    );
    return [];
  });
  const first = parsed[0];
  const other = parsed.find(({ server }) => server.scheme !== first?.server.scheme);
  if (first !== undefined && other !== undefined)
    problems.error(
      'spec/bad-value',
      other.at,
      `\`servers\` of ${what} has addresses with tls:// and with nats://`,
      'write one of them for all servers: tls:// requires TLS',
    );
  return parsed.map(({ server }) => server);
}

/** A password in an address must not reach a log. */
function hideLogin(text: string): string {
  return text.replace(/\/\/[^/]*@/, '//…@');
}

function checkName(key: string, { value, at }: Located<string>, { what, problems }: QueueContext): void {
  // The reader has already reported an empty name.
  if (value === '' || (NAME.test(value) && value.length <= QUEUE_LIMITS.nameCharacters)) return;
  problems.error(
    'spec/bad-value',
    at,
    `\`${key}\` of ${what} is ${quote(value)}`,
    `use printable ASCII characters without blanks, \`.\`, \`*\`, \`>\`, \`/\` and \`\\\`, at most ${QUEUE_LIMITS.nameCharacters}`,
  );
}

function compileLogin(
  { token, user, password, creds }: NatsSpec,
  { what, gaps, problems }: QueueContext,
): NatsLogin | null {
  if (token !== null) return { kind: 'token', token: token.value };
  if (creds !== null) return { kind: 'creds', creds: creds.value };
  if (user === null) return null;
  if (user.value !== '' && (!USER.test(user.value) || user.value.length > QUEUE_LIMITS.userCharacters))
    problems.error(
      'spec/bad-value',
      user.at,
      `\`user\` of ${what} is ${quote(user.value)}`,
      `use at most ${QUEUE_LIMITS.userCharacters} characters, and no control characters`,
    );
  if (password !== null) return { kind: 'user', user: user.value, password: password.value };
  // A password under another key was reported.
  if (!gaps.includes('trigger-secrets'))
    problems.error(
      'spec/bad-value',
      user.at,
      `\`nats\` of ${what} has \`user\` without \`password\``,
      'add `password: NAME`, and set its value with `voidbox secret set NAME`',
    );
  return null;
}

/** A secret must not pass the network without protection. */
function checkProtection(
  servers: readonly NatsServer[],
  { token, password, tlsCa }: NatsSpec,
  login: NatsLogin | null,
  { what, problems }: QueueContext,
): void {
  const open = servers.find(({ scheme }) => scheme === 'nats');
  if (open === undefined) return;
  if (tlsCa !== null)
    problems.error(
      'spec/bad-value',
      tlsCa.at,
      `\`tls_ca\` of ${what} has no effect with ${formatNatsServer(open)}, which does not require TLS`,
      `write tls://${formatBrokerAddress(open)}, or remove \`tls_ca\``,
    );
  const beyond = servers.find(({ scheme, host }) => scheme === 'nats' && !isLocalHost(host));
  const secret = token ?? password;
  // A file of credentials signs a challenge, and its key stays here.
  if (beyond === undefined || secret === null || login === null || login.kind === 'creds') return;
  problems.error(
    'spec/bad-value',
    secret.at,
    `the ${login.kind === 'token' ? 'token' : 'password'} of ${what} would pass the network to ${formatBrokerAddress(beyond)} without TLS`,
    `write tls://${formatBrokerAddress(beyond)}, or use \`creds\``,
  );
}
