/** Refuses receivers of a deployment to which the service would send nothing, while its deployer is there to see why. */
import { remedyOf } from '../../domain/errors/error-code.ts';
import { findUrlProblem, type Notify, type Receiver } from '../../domain/notification/notify.ts';
import { quoteArgument } from '../../domain/security/typed-argument.ts';
import { shorten } from '../../domain/units/quote.ts';
import { AppError } from '../app-error.ts';

/** The place of the URL or the secret of a receiver. */
export interface ReceiverPlace {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

export interface ReceiverTools {
  /** Returns why the service would send nothing to a URL; null: it would. */
  readonly findClosedTarget: (url: string) => Promise<string | null>;
  /** Returns the values of secrets of the deployment, by name. They exist. */
  readonly readSecrets: (deployment: string, names: readonly string[]) => Promise<Readonly<Record<string, string>>>;
}

/**
 * @param places  by the names of receivers
 * @throws AppError `notify/closed-address`, `notify/bad-secret`
 */
export async function refuseReceivers(
  deployment: string,
  { receivers }: Pick<Notify, 'receivers'>,
  places: ReadonlyMap<string, ReceiverPlace>,
  tools: ReceiverTools,
): Promise<void> {
  const found = await Promise.all(receivers.map((receiver) => findRefusal(deployment, receiver, tools)));
  const refused = receivers.flatMap(({ name }, index) => {
    const refusal = found[index];
    return refusal === undefined || refusal === null ? [] : [{ name, ...refusal }];
  });
  const [first] = refused;
  if (first === undefined) return;
  const place = places.get(first.name);
  const before = place === undefined ? '' : `${place.file}:${place.line}:${place.column}: `;
  const more = refused.slice(1).map(({ name }) => name);
  const others = more.length === 0 ? '' : `; also refused: ${more.join(', ')}`;
  throw new AppError('usage', first.code, `${before}${first.message}${others}`, first.remedy);
}

interface Refusal {
  readonly code: 'notify/closed-address' | 'notify/bad-secret';
  readonly message: string;
  readonly remedy: string;
}

async function findRefusal(
  deployment: string,
  { name, target }: Receiver,
  { findClosedTarget, readSecrets }: ReceiverTools,
): Promise<Refusal | null> {
  if (target.kind !== 'slack') {
    const why = await findClosedTarget(target.url);
    if (why === null) return null;
    const message = `receiver ${name}: the service sends nothing to ${shorten(target.url)}: ${why}`;
    return { code: 'notify/closed-address', message, remedy: suggestOpening(new URL(target.url).host) };
  }
  const { [target.secret]: value = '' } = await readSecrets(deployment, [target.secret]);
  const url = value.trim();
  // Texts about a URL that is a secret contain no part of it.
  if (findUrlProblem(url) !== null)
    return {
      code: 'notify/bad-secret',
      message: `receiver ${name}: the secret ${target.secret} is not the URL of an incoming webhook`,
      remedy: remedyOf('notify/bad-secret') ?? '',
    };
  if ((await findClosedTarget(url)) === null) return null;
  return {
    code: 'notify/closed-address',
    message: `receiver ${name}: the URL in the secret ${target.secret} has no TLS, or an address of this machine or of a private network`,
    remedy: suggestOpening('HOST'),
  };
}

function suggestOpening(host: string): string {
  return `Write a URL with https of a host of the internet. If the receiver is yours, the operator of the service opens its host: voidbox up --allow-notify ${quoteArgument(host)}`;
}
