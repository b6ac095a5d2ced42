#include "cli/report_export.h"

#include <inttypes.h>
#include <string.h>

/* Slices that a page holds; of more, blocks are left out and the page says so. */
#define PAGE_SLICES 400000u

void cli_json_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            fprintf(file, "\\%c", *c);
        } else if (*c < 0x20 || *c == '<') { /* '<': the text may stand in a page's script */
            fprintf(file, "\\u%04x", *c);
        } else {
            fputc(*c, file);
        }
    }
    fputc('"', file);
}

/* ---- Chrome ------------------------------------------------------------------------------------ */

static void put_time(FILE *file, const char *key, uint64_t ns)
{
    fprintf(file, ",\"%s\":%" PRIu64 ".%03u", key, ns / 1000, (unsigned)(ns % 1000));
}

static void put_tracks(const struct trace *trace, FILE *file)
{
    for (size_t t = 1; t < trace->track_count; t++) {
        const struct trace_track *track = &trace->tracks[t];
        const char *above = trace->tracks[track->parent].name;
        fprintf(file,
                ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%zu,\"name\":\"thread_name\",\"args\":{\"name\":", t);
        char name[400];
        snprintf(name, sizeof(name), "%s%s%s", track->is_thread ? "" : above, track->is_thread ? "" : " / ",
                 track->name);
        cli_json_string(file, name);
        fprintf(file, "}},\n{\"ph\":\"M\",\"pid\":1,\"tid\":%zu,\"name\":\"thread_sort_index\",", t);
        fprintf(file, "\"args\":{\"sort_index\":%zu}}", t);
    }
}

static void put_flow(FILE *file, const struct trace_slice *s, uint64_t flow, const char *phase)
{
    fprintf(file, ",\n{\"ph\":\"%s\",\"pid\":1,\"tid\":%u,\"cat\":\"flow\",\"name\":\"task\",\"id\":%" PRIu64,
            phase, s->track, flow);
    put_time(file, "ts", s->begin_ns);
    fputs(strcmp(phase, "f") == 0 ? ",\"bp\":\"e\"}" : "}", file);
}

void cli_export_chrome(const struct trace *trace, FILE *file)
{
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
          "{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"gantry\"}}",
          file);
    put_tracks(trace, file);
    for (size_t i = 0; i < trace->slice_count; i++) {
        const struct trace_slice *s = &trace->slices[i];
        fprintf(file, ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":%u,\"cat\":", s->track);
        cli_json_string(file, s->category != 0 ? trace->names[s->category] : "cta");
        fputs(",\"name\":", file);
        cli_json_string(file, trace->names[s->name]);
        put_time(file, "ts", s->begin_ns);
        put_time(file, "dur", s->end_ns - s->begin_ns);
        fprintf(file, ",\"args\":{\"id\":%" PRIu64 "}}", cli_trace_argument(trace, s, TRACE_ID, 0));
        uint64_t flow = trace->details[s->details].flow;
        if (s->details != 0 && flow != 0) { /* it begins at the launch and ends at the kernels */
            put_flow(file, s, flow, cli_trace_is(trace, s, "launch") ? "s" : "f");
        }
    }
    for (size_t i = 0; i < trace->count_count; i++) {
        const struct trace_count *c = &trace->counts[i];
        fputs(",\n{\"ph\":\"C\",\"pid\":1,\"name\":", file);
        cli_json_string(file, trace->tracks[c->track].name);
        put_time(file, "ts", c->time_ns);
        fprintf(file, ",\"args\":{\"value\":%" PRIu64 "}}", c->value);
    }
    fputs("\n]}\n", file);
}

/* ---- the page ---------------------------------------------------------------------------------- */

static const char *const page_head[] = {
    "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Gantry timeline</title><style>\n",
    "body{margin:0;font:13px sans-serif;background:#fff;color:#222}\n",
    "#bar{padding:6px 10px;border-bottom:1px solid #ccc}#bar input{width:16em}\n",
    "#note{color:#666;margin-left:1em}#tip{position:fixed;background:#fffbe6;border:1px solid #cb9;",
    "padding:4px 8px;display:none;white-space:pre;pointer-events:none}\n",
    "</style></head><body><div id=\"bar\"><b>Gantry timeline</b> <input id=\"find\" placeholder=\"find a "
    "name\">",
    "<span id=\"note\"></span></div><canvas id=\"view\"></canvas><div id=\"tip\"></div>\n",
    "<script>\n\"use strict\";\n",
    NULL,
};

/* T: tracks [name, parent, isBlock]; N: names; S: slices [track, name, begin, duration, category, id] from
 * the recording's begin; LEFT: slices left out.  The page's title ends with the number of slices drawn, for
 * those who look at it without eyes. */
static const char *const page_script[] = {
    "const "
    "view=document.getElementById('view'),g=view.getContext('2d'),tip=document.getElementById('tip');\n",
    "const L=260,H=16;let end=1;const rows=[],rowOf=new Map();\n",
    "for(const s of S)end=Math.max(end,s[2]+s[3]);\n",
    "const used=new Set(S.map(s=>s[0]));\n",
    "T.forEach((t,i)=>{if(t&&used.has(i)){rowOf.set(i,rows.length);rows.push({name:t[0],group:T[t[1]]?T[t[1]]"
    "[0]:'',",
    "slices:[]});}});\n",
    "for(const s of S)rows[rowOf.get(s[0])].slices.push(s);\n",
    "for(const r of rows){r.slices.sort((a,b)=>a[2]-b[2]||b[3]-a[3]);const open=[];\n",
    " for(const s of r.slices){while(open.length&&open[open.length-1]<=s[2])open.pop();s.depth=open.length;",
    "open.push(s[2]+s[3]);r.deep=Math.max(r.deep||1,open.length);}}\n",
    "let tall=0;for(const r of rows){r.y=tall;tall+=r.deep*H+4;}\n",
    "/* where no GPU task ran, between the first and the last */\n",
    "const gaps=[];{const b=S.filter(s=>N[s[4]]==='gpu').map(s=>[s[2],s[2]+s[3]]).sort((x,y)=>x[0]-y[0]);\n",
    " let e=b.length?b[0][1]:0;for(const x of b){if(x[0]>e)gaps.push([e,x[0]]);e=Math.max(e,x[1]);}}\n",
    "let from=0,span=end,scroll=0,word='',drawn=0;\n",
    "const hue=n=>{let h=0;for(const c of n)h=(h*31+c.charCodeAt(0))%360;return h;};\n",
    "const x=t=>L+(t-from)/span*(view.width-L);\n",
    "const time=n=>n>=1e6?(n/1e6).toFixed(3)+' ms':n>=1e3?(n/1e3).toFixed(3)+' us':n+' ns';\n",
    "function draw(){view.width=innerWidth;view.height=innerHeight-40;g.font='11px sans-serif';drawn=0;\n",
    " g.fillStyle='#f3d9d9';for(const p of gaps){const a=Math.max(L,x(p[0])),b=x(p[1]);if(b>L&&a<view.width)",
    "g.fillRect(a,0,Math.max(b-a,1),view.height);}\n",
    " for(const r of rows){const y=r.y-scroll+18;if(y+r.deep*H<0||y>view.height)continue;\n",
    "  g.fillStyle='#eee';g.fillRect(0,y+r.deep*H+1,view.width,1);let last=-1,lastDepth=-1;\n",
    "  for(const s of r.slices){const a=x(s[2]),b=x(s[2]+s[3]);if(b<L||a>view.width)continue;\n",
    "   const hit=word&&N[s[1]].toLowerCase().includes(word);\n",
    "   if(b<=last&&s.depth===lastDepth&&!hit)continue;last=Math.ceil(b);lastDepth=s.depth;drawn++;\n",
    "   const l=Math.max(a,L),w=Math.max(b-l,1);g.fillStyle=hit?'#d00':word?'#ccc':",
    "`hsl(${hue(N[s[1]])},55%,70%)`;g.fillRect(l,y+s.depth*H,w,H-2);\n",
    "   if(w>30){g.fillStyle='#222';g.fillText(N[s[1]],l+2,y+s.depth*H+11,w-3);}}\n",
    "  g.fillStyle='#fff';g.fillRect(0,y,L-4,r.deep*H);g.fillStyle='#222';",
    "g.fillText((r.group&&r.group!=='gantry'?r.group+' / ':'')+r.name,4,y+11,L-10);}\n",
    " g.fillStyle='#fff';g.fillRect(0,0,view.width,16);g.fillStyle='#222';\n",
    " for(let i=0;i<6;i++)g.fillText(time(Math.round(from+span*i/6)),L+(view.width-L)*i/6,12);\n",
    " document.title='Gantry timeline: '+drawn+' of '+S.length+' slices drawn';}\n",
    "view.onwheel=e=>{e.preventDefault();if(e.ctrlKey||!e.shiftKey&&e.offsetX>L){const "
    "at=from+(e.offsetX-L)/",
    "(view.width-L)*span,k=e.deltaY>0?1.25:0.8;span=Math.min(end,span*k);from=Math.max(0,at-(at-from)*k);}",
    "else scroll=Math.max(0,Math.min(tall,scroll+e.deltaY));draw();};\n",
    "let "
    "drag=null;view.onmousedown=e=>{drag=[e.clientX,e.clientY,from,scroll];};onmouseup=()=>{drag=null;};\n",
    "view.onmousemove=e=>{if(drag){from=Math.max(0,drag[2]-(e.clientX-drag[0])/(view.width-L)*span);",
    "scroll=Math.max(0,drag[3]-(e.clientY-drag[1]));draw();return;}\n",
    " const t=from+(e.offsetX-L)/(view.width-L)*span,y=e.offsetY+scroll-18;let found=null;\n",
    " for(const r of rows)if(y>=r.y&&y<r.y+r.deep*H)for(const s of r.slices)if(s[2]<=t&&t<=s[2]+s[3]&&",
    "s.depth===Math.floor((y-r.y)/H))found=s;\n",
    " tip.style.display=found?'block':'none';if(found){tip.textContent=N[found[1]]+'\\n'+time(found[3])+' at "
    "'+",
    "time(found[2])+'\\nid '+found[5];tip.style.left=e.clientX+12+'px';tip.style.top=e.clientY+12+'px';}};\n",
    "document.getElementById('find').oninput=e=>{word=e.target.value.toLowerCase();draw();};\n",
    "document.getElementById('note').textContent=S.length+' slices, '+gaps.length+' gaps of the GPU "
    "(shaded)'+",
    "(LEFT?'; '+LEFT+' blocks are not on this page':'')+'. Wheel: zoom; shift and wheel: scroll; drag: "
    "move.';\n",
    "onresize=draw;draw();\n</script></body></html>\n",
    NULL,
};

static void put_lines(FILE *file, const char *const *lines)
{
    for (; *lines != NULL; lines++) {
        fputs(*lines, file);
    }
}

void cli_export_html(const struct trace *trace, FILE *file)
{
    bool blocks = trace->slice_count <= PAGE_SLICES;
    uint64_t begin = UINT64_MAX, left = 0;
    for (size_t i = 0; i < trace->slice_count; i++) {
        begin = trace->slices[i].begin_ns < begin ? trace->slices[i].begin_ns : begin;
    }
    put_lines(file, page_head);
    fputs("const T=[null", file);
    for (size_t t = 1; t < trace->track_count; t++) {
        fputs(",\n[", file);
        cli_json_string(file, trace->tracks[t].name);
        fprintf(file, ",%u,%d]", trace->tracks[t].parent, trace->tracks[t].is_block);
    }
    fputs("];\nconst N=[", file);
    for (size_t n = 0; n < trace->name_count; n++) {
        fputs(n == 0 ? "" : ",\n", file);
        cli_json_string(file, trace->names[n]);
    }
    fputs("];\nconst S=[", file);
    const char *comma = "";
    for (size_t i = 0; i < trace->slice_count; i++) {
        const struct trace_slice *s = &trace->slices[i];
        if (!blocks && trace->tracks[s->track].is_block) {
            left++;
            continue;
        }
        fprintf(file, "%s[%u,%u,%" PRIu64 ",%" PRIu64 ",%u,%" PRIu64 "]", comma, s->track, s->name,
                s->begin_ns - begin, s->end_ns - s->begin_ns, s->category,
                cli_trace_argument(trace, s, TRACE_ID, cli_trace_argument(trace, s, TRACE_BLOCK, 0)));
        comma = ",\n";
    }
    fprintf(file, "];\nconst LEFT=%" PRIu64 ";\n", left);
    put_lines(file, page_script);
}
