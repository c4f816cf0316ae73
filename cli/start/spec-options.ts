/** Options of commands that read a spec. */
import { type Command, InvalidArgumentError } from 'commander';
import { createUsageError } from '../../app/app-error.ts';
import { shorten } from '../../domain/units/quote.ts';

export function addBaseDirOption(command: Command): void {
  command.option(
    '--base-dir <folder>',
    "resolve relative paths of the spec from this folder instead of the spec's folder",
  );
}

/** `--image alpine:3.20=./alpine`, any number of times. */
export function parseImage(text: string, before: Readonly<Record<string, string>> = {}): Record<string, string> {
  const equals = text.indexOf('=');
  if (equals < 1 || equals === text.length - 1)
    throw new InvalidArgumentError(
      'It must be NAME=PATH: the image as the spec names it, and a folder, a tar or an OCI layout.',
    );
  return { ...before, [text.slice(0, equals)]: text.slice(equals + 1) };
}

/** `--param region=north`, any number of times. */
export function parseParam(text: string, before: Readonly<Record<string, string>> = {}): Record<string, string> {
  const equals = text.indexOf('=');
  if (equals < 1) throw createUsageError(`--param must be NAME=VALUE, got \`${shorten(text)}\``);
  return { ...before, [text.slice(0, equals)]: text.slice(equals + 1) };
}
