/* SPDX-License-Identifier: MIT */
/* node perfetto_query.js UI TRACE <queries.json >answers.json
 *
 * Asks Perfetto's own trace processor about a trace.  UI is a folder of Perfetto's web page: the one with
 * engine_bundle.js and trace_processor.wasm.  `queries` is a list of SQL texts; each answer is
 * {"columns": [...], "rows": [[...], ...]} or {"error": text}.  Numbers beyond 2^53 come as text.
 *
 * engine_bundle.js is the page's worker: it speaks the messages of Perfetto's trace_processor.proto (all that
 * is used is below) over a MessagePort.  It runs here as it is, in a context that looks like a worker's. */
'use strict';
const fs = require('fs');
const path = require('path');
const vm = require('vm');

const METHOD_APPEND = 1, METHOD_FINALIZE = 2, METHOD_QUERY = 3;
const FIELD_SEQUENCE = 1, FIELD_REQUEST = 2, FIELD_FATAL = 5;
const FIELD_DATA = 101, FIELD_QUERY = 103, FIELD_APPENDED = 201, FIELD_RESULT = 203;
const CELL_NULL = 1, CELL_INTEGER = 2, CELL_FLOAT = 3, CELL_TEXT = 4, CELL_BLOB = 5;
const CHUNK = 16 << 20;

/* ---- protobuf ---- */

function varint(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) {
    bytes.push(value % 128 + 128);
  }
  return Buffer.from([...bytes, value]);
}

const integerField = (field, value) => Buffer.concat([varint(field * 8), varint(value)]);
const bytesField = (field, bytes) => Buffer.concat([varint(field * 8 + 2), varint(bytes.length), bytes]);

/* A varint as a BigInt, and where it ends. */
function readVarint(bytes, at) {
  let value = 0n;
  for (let shift = 0n;; shift += 7n, at++) {
    value |= BigInt(bytes[at] & 127) << shift;
    if (bytes[at] < 128) {
      return [BigInt.asIntN(64, value), at + 1];
    }
  }
}

/* All fields of a message: [number, value]; a value is a BigInt or bytes. */
function readMessage(bytes) {
  const fields = [];
  for (let at = 0; at < bytes.length;) {
    let tag, value;
    [tag, at] = readVarint(bytes, at);
    const kind = Number(tag & 7n);
    if (kind === 0) {
      [value, at] = readVarint(bytes, at);
    } else {
      let length = BigInt(kind === 1 ? 8 : 4);
      if (kind === 2) {
        [length, at] = readVarint(bytes, at);
      }
      value = bytes.subarray(at, at + Number(length));
      at += Number(length);
    }
    fields.push([Number(tag >> 3n), value]);
  }
  return fields;
}

function readVarints(bytes) {
  const values = [];
  for (let at = 0, value; at < bytes.length;) {
    [value, at] = readVarint(bytes, at);
    values.push(value);
  }
  return values;
}

/* ---- answers ---- */

const plain = (value) => Number.isSafeInteger(Number(value)) ? Number(value) : String(value);

function addCells(batch, answer) {
  const of = (field) => batch.filter(([number]) => number === field).map(([, value]) => value);
  const texts = Buffer.concat(of(5)).toString('utf8').split('\0');
  const integers = of(2).flatMap(readVarints);
  const floats = Buffer.concat(of(3)), blobs = of(4);
  let text = 0, integer = 0, float = 0, blob = 0;
  for (const kind of of(1).flatMap(readVarints).map(Number)) {
    const last = answer.rows[answer.rows.length - 1];
    const row = last !== undefined && last.length < answer.columns.length ? last : [];
    if (row !== last) {
      answer.rows.push(row);
    }
    switch (kind) {
    case CELL_NULL: row.push(null); break;
    case CELL_INTEGER: row.push(plain(integers[integer++])); break;
    case CELL_FLOAT: row.push(floats.readDoubleLE(8 * float++)); break;
    case CELL_TEXT: row.push(texts[text++]); break;
    case CELL_BLOB: row.push(blobs[blob++].toString('hex')); break;
    default: throw new Error(`a cell of kind ${kind}`);
    }
  }
}

/* Adds a part of an answer; whether it was the last. */
function addResult(result, answer) {
  let last = false;
  for (const [number, value] of result) {
    if (number === 1) {
      answer.columns.push(value.toString('utf8'));
    } else if (number === 2) {
      answer.error = value.toString('utf8');
      last = true;
    }
  }
  for (const [number, value] of result) {
    if (number === 3) {
      const batch = readMessage(value);
      addCells(batch, answer);
      last = last || batch.some(([field, flag]) => field === 6 && flag !== 0n);
    }
  }
  return last;
}

/* ---- the engine ---- */

/* The file that the worker's script asks for, at once. */
function requestOf(ui) {
  return class {
    open(method, name) {
      this.name = path.basename(name);
    }
    send() {
      this.response = fs.readFileSync(path.join(ui, this.name));
    }
  };
}

/* Start the worker's script; comes back with a function that sends it bytes.  `onReply` gets its answers. */
async function startEngine(ui, onReply) {
  const self = {location: {href: 'http://localhost/', protocol: 'http:', host: 'localhost'}};
  const port = {postMessage: (bytes) => onReply(Buffer.from(bytes))};
  const quiet = {log() {}, warn: console.error, error: console.error};
  const context = vm.createContext({
    self, location: self.location, console: quiet, WorkerGlobalScope: Object, XMLHttpRequest: requestOf(ui), URL,
    TextDecoder, TextEncoder, performance, setTimeout, crypto: globalThis.crypto,
  });
  vm.runInContext(fs.readFileSync(path.join(ui, 'engine_bundle.js'), 'utf8'), context);
  self.onmessage({data: port});
  await new Promise(setImmediate); /* the script's own promises come first */
  const Bytes = vm.runInContext('Uint8Array', context); /* the script's own; ours is another type to it */
  return (bytes) => port.onmessage({data: new Bytes(bytes)});
}

/* One request, whose answer comes before send() returns: the parts of the answer. */
function makeAsker(send, replies) {
  let sequence = 0;
  return (method, ...fields) => {
    replies.length = 0;
    send(bytesField(1, Buffer.concat([integerField(FIELD_SEQUENCE, sequence++), integerField(FIELD_REQUEST, method),
      ...fields])));
    return replies.map((frame) => {
      const fatal = frame.find(([number]) => number === FIELD_FATAL);
      if (fatal !== undefined) {
        throw new Error(fatal[1].toString('utf8'));
      }
      return frame;
    });
  };
}

function load(ask, trace) {
  const bytes = fs.readFileSync(trace);
  for (let at = 0; at < bytes.length; at += CHUNK) {
    for (const frame of ask(METHOD_APPEND, bytesField(FIELD_DATA, bytes.subarray(at, at + CHUNK)))) {
      const result = frame.find(([number]) => number === FIELD_APPENDED);
      const error = result === undefined ? undefined : readMessage(result[1]).find(([number]) => number === 2);
      if (error !== undefined && error[1].length !== 0) {
        throw new Error(error[1].toString('utf8'));
      }
    }
  }
  ask(METHOD_FINALIZE);
}

function query(ask, sql) {
  const answer = {columns: [], rows: []};
  let last = false;
  for (const frame of ask(METHOD_QUERY, bytesField(FIELD_QUERY, bytesField(1, Buffer.from(sql))))) {
    for (const [number, value] of frame) {
      last = number === FIELD_RESULT && addResult(readMessage(value), answer) || last;
    }
  }
  if (!last) {
    throw new Error(`no end of the answer to ${sql}`);
  }
  return answer;
}

async function main() {
  const [ui, trace] = process.argv.slice(2);
  const queries = JSON.parse(fs.readFileSync(0, 'utf8'));
  const replies = [];
  const send = await startEngine(ui, (bytes) => { /* whole frames, each field 1 of the stream */
    replies.push(...readMessage(bytes).map(([, frame]) => readMessage(frame)));
  });
  const ask = makeAsker(send, replies);
  load(ask, trace);
  process.stdout.write(JSON.stringify(queries.map((sql) => query(ask, sql))));
}

main().catch((error) => {
  console.error(error.message.split('\n').slice(0, 20).join('\n'));
  process.exit(1);
});
