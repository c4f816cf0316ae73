/** The options of `serve` as arguments of a unit, which starts in another folder. */
import { resolve } from 'node:path';
import type { CliContext } from '../context.ts';
import { parseNotifyOptions } from './notify-options.ts';
import { parseServeOptions, requireTokens, type ServeOptions } from './serve-options.ts';
import { parseSourceOptions } from './source-options.ts';

/**
 * Checks the options as `serve` does at its start, so that the unit does not end at once.
 * @throws AppError of usage
 */
export function listServeArguments(
  options: ServeOptions,
  { cwd, env, now }: Pick<CliContext, 'cwd' | 'env' | 'now'>,
): readonly string[] {
  // `planUnit` refuses all of them for the embedded stack.
  if (env.temporalConfigured) {
    const plan = parseServeOptions(options, { cwd, nowMs: now().getTime(), defaultSocket: env.daemon.socket });
    parseSourceOptions(options, cwd);
    parseNotifyOptions(options);
    requireTokens(plan, options.tokenFile !== undefined || env.daemon.token !== null, env);
  }
  const { listen = [], publicUrl, tlsCert, tlsKey, behindProxy, specRoot, tokenFile } = options;
  const makeAbsolute = (path: string): string => resolve(cwd, path);
  return [
    ...listValues('listen', listen.length > 0 ? listen.map((address) => toAbsoluteAddress(address, cwd)) : undefined),
    ...listValues('public-url', publicUrl === undefined ? undefined : [publicUrl]),
    ...listPath('tls-cert', tlsCert, cwd),
    ...listPath('tls-key', tlsKey, cwd),
    ...(behindProxy === true ? ['--behind-proxy'] : []),
    ...listPath('spec-root', specRoot, cwd),
    ...listPath('token-file', tokenFile, cwd),
    ...listValues('allow-watch', options.allowWatch && options.allowWatch.map(makeAbsolute)),
    ...listValues('allow-outbox', options.allowOutbox),
    ...listValues('allow-queue', options.allowQueue),
    ...listValues('allow-notify', options.allowNotify),
  ];
}

function listValues(name: string, values: readonly string[] | false | undefined): readonly string[] {
  if (values === undefined) return [];
  return values === false ? [`--no-${name}`] : [`--${name}`, ...values];
}

function listPath(name: string, path: string | undefined, cwd: string): readonly string[] {
  return listValues(name, path === undefined ? undefined : [resolve(cwd, path)]);
}

function toAbsoluteAddress(address: string, cwd: string): string {
  const [, path] = /^unix:(?!\/\/)(.+)$/.exec(address) ?? [];
  return path === undefined ? address : `unix:${resolve(cwd, path)}`;
}
